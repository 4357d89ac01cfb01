"""Requests and responses of every api, one module an api."""
