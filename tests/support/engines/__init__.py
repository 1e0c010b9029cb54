"""The engine of commit 7272150 beside ours: what both are given to do, and how what they did is compared."""
