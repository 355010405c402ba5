Media jobs at Sume: image and video models of its catalog.
