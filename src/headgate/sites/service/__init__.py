"""What runs beside a site's queries: ticks, the exchange with a coordinator, the history they leave."""
