"""The commands of the console script: what each takes, asks for and prints."""
