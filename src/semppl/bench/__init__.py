"""How fast it is: the step taken apart, held against the encoders alone, and how it grows."""
