-- name: step_0004_tree
-- Each log is a Merkle tree (AUDIT A-701): the leaves are the hashes of the records, the head is the tree's root.

-- rec.leaf: SHA-256(0x00 || the record's bytes), for speed and for locating damage, never trusted (AUDIT A-410).
-- NULL in records from before this step.
ALTER TABLE rec ADD COLUMN leaf BLOB;

-- head.root: tree hash of all records of the log.  head.frontier: the hashes of its perfect subtrees, biggest first,
-- from which it goes on.  NULL until the first record after this step; then they are made from the records.
ALTER TABLE head ADD COLUMN root BLOB;
ALTER TABLE head ADD COLUMN frontier BLOB;
