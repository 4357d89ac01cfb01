"""One module an API, named for it: check the request, call one core, answer."""
