"""What the team knows: engrams, and what is made of them."""
