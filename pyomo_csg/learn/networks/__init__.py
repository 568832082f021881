"""Task-Nets, the Loss-Net, forecasts by networks, and the domains of the uncertain numbers."""
