"""Requests: who may ask, who answers, who must wait."""
