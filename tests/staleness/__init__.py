"""How often the state of evidence is what `git blame --reverse -M -C` says, on the history of a repository."""
