"""What is asked: tasks, their examples, and token windows made from them."""
