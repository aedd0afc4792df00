"""What a lesson's notebook imports: set-up, checks and pictures."""
