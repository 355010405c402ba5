Media jobs at xAI: films made, edited and extended.
