"""Which run goes next and what happened: the only state of the service."""
