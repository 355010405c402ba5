Jobs have images made by OpenAI and Gemini, speech, effects and music by ElevenLabs and Gemini, and films by Veo and Google's interactions.
