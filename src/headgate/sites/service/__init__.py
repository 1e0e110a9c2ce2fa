"""What runs beside a site's queries: its ticks, the exchange with a coordinator, the history they leave."""
