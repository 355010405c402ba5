``omnigate demo`` has a picture made by a media job, too: told of by a signed webhook, fetched by its
signed URL and saved, and its price checked in the ledger. It prints lines to paste for jobs.
