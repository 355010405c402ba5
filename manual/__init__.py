"""The pages of the manual, made of the same words as the help of the commands and the docs.

``make man`` (``python -m manual``) writes them anew; a test holds them to what it would write. They
are installed with the wheel, under ``share/man``.
"""
