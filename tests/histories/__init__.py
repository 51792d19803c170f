"""Made-up histories of groups: written in few words, put on storage, judged by the job and by a slow reference."""
