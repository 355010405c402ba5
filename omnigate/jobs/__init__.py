"""Media jobs: work at providers that takes seconds to minutes, kept until it is done."""
