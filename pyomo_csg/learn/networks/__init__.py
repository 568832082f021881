"""Task-Nets, the Loss-Net, and the domains of the uncertain numbers."""
