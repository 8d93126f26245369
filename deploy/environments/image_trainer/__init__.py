"""Train a network on a folder of images from the browser, watch it learn, and try a picture on it.

    python3 -m image_trainer SOCKET BASE HOME

The page is Gradio's, on the Unix socket SOCKET, at the path BASE of the portal; the network is Keras'. A training goes
on when its page is closed, until it is stopped or the session ends. What is trained is kept in HOME/image-trainer.

This folder is copied into the environment image-trainer, whose packages it imports late.
"""
