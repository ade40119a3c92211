-- Statements on tile.  Each names its caller and its index; a log stands for its tenant.

-- name: tile_insert
-- takes: int int int blob
-- audit_tiles_save(): the first hash of a tile.  Primary key.
INSERT INTO tile(log, level, n, hashes) VALUES (?1, ?2, ?3, ?4)
ON CONFLICT(log, level, n) DO UPDATE SET hashes = excluded.hashes;

-- name: tile_append
-- takes: int int int blob int
-- audit_tiles_save(): the hash that comes behind ?5 bytes.  Primary key.
UPDATE tile SET hashes = CAST(hashes || ?4 AS BLOB) WHERE log = ?1 AND level = ?2 AND n = ?3 AND length(hashes) = ?5;

-- name: tile_last
-- takes: int
-- audit_tiles_whole(): the newest tile of level 1.  Primary key.
SELECT n, length(hashes) FROM tile WHERE log = ?1 AND level = 1 ORDER BY n DESC LIMIT 1;

-- name: tile_get
-- takes: int int int
-- audit_tile_get().  Primary key.
SELECT hashes FROM tile WHERE log = ?1 AND level = ?2 AND n = ?3;
