``omnigate init`` writes routes for media jobs where it finds credentials of Replicate, fal, ElevenLabs, xAI or Gemini, and ``omnigate doctor`` tells which of them the control plane lacks.
