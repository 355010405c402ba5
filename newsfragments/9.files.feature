`GET /v1/files/{job}/{n}` serves what a media job has made, whole or in ranges, to the job's key or to
whoever has a signed URL. It is always a download, of a type that no browser runs.
