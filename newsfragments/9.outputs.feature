Outputs of media jobs are fetched at once and kept: in a folder of the control plane's machine, or
in a bucket that speaks S3. They do not expire with the provider's URL.
