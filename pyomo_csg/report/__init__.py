"""What a policy shows of itself: a page, and pictures one by one."""
