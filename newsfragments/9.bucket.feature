With `media.storage = "s3"` outputs go into a bucket, in path or virtual-host style, with lasting or
temporary credentials; clients are led there by URLs that work for five minutes.
