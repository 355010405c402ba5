The dashboard has a page of media jobs: a list that comes up by itself, and each job whole with its
attempts, outputs, cost and webhook. From there a job is canceled, or its webhook sent once more.
