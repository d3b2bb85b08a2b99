"""tiny-world: the world of tiny-video under a player's keys; the codec and the model are those of tiny-video.

What differs: the clips (data.py) and five input planes, one for each action, behind the coordinates.
"""
