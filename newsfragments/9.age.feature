With `media.age_recipients`, or a key's own, outputs of media jobs are stored encrypted for
[age](https://age-encryption.org): the gateway serves them and cannot read them. It needs the extra
`omnigate[age]`.
