"""What does this node show to those who watch it, and how do they read it? (docs/decisions/0020)"""
