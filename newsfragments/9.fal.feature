Media jobs at fal: any endpoint behind its queue.
