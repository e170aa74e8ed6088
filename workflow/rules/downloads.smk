# What the selected runs need of the network: afterwards nothing does.
rule downloads:
    input:
        downloads.sources(),
        [sums(models.folder(name)) for name in downloads.models()],
