-- name: step_0045_zone
-- Zones by themselves (decision 0178): beside what chapters come to, and beside the bytes of blocks, each was a page of its own, and most
-- of what a question reads of a large store is zones.
CREATE INDEX chap_zone ON chap(log, first, cnt, ts_min, ts_max, zone);
CREATE INDEX blk_zone ON blk(log, first, cnt, fmt, ts_min, ts_max, zone);
