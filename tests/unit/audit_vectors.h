/* The vectors of the audit store's format: a record and what follows from it.  The tree of the vectors has 600 leaves,
 * the record with the indexes 0 to 599. */
#ifndef TESTS_UNIT_AUDIT_VECTORS_H
#define TESTS_UNIT_AUDIT_VECTORS_H

#define VECTOR_RECORD_SIZE 381
#define VECTOR_IDX_AT 40                /* where the record's eight bytes of index stand */
#define VECTOR_LEAVES 600
static const char vector_record[] =
	"5443415201000200000017746f6f6c637269622e6578616d706c652f742f61636d650003000000080000000000000000"
	"0004000000100192f0c40000700080000000000000010005000000080006523e88fd100000100000000c37516d336b5a"
	"70306142317800110000001470726e5f3266316339613062373764336538343500200000000a323032362d30372d3238"
	"00210000000800000000000003e900220000000f66696c65735f726561645f7465787400230000004031323336623938"
	"643765343263623330363839373263326635396363653262613430326661343562303236383239613136333738383634"
	"333932663838613264002800000009706f6c69637940313200300000002200010f9d7aa30611b60f6c989047cc8a48b0"
	"8097b39ed16305648ea0582110dbd8510040000000080000000000000016004200000008000000000000001600430000"
	"00080000000000000001004400000008000000000000000300580000000f626173652b6c616e646c6f636b3a34";
static const char vector_leaf[] = "774a2e4b345157989c3d30a9aab431b65fff516ad7a2b70cb9c05829cd09312d";
/* Tree hashes of the first n leaves, base64. */
static const struct { unsigned n; const char *root; } vector_roots[] = {
	{ 0, "47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=" },
	{ 1, "d0ouSzRRV5icPTCpqrQxtl//UWrXorcMucBYKc0JMS0=" },
	{ 2, "ShYGMcqdzYnXWSGQs8CqUSb4l2IHiSodKp6C+6+Cdi8=" },
	{ 3, "IczmzniRsxrdpcb+T4Za8FcxIaexTdQTp+U7T+8lO0E=" },
	{ 256, "lYUJsIH2Nf7+OAq1/762eXPCLOP15nOvo0rTxVlosLk=" },
	{ 600, "ZORtCa8Hi9j7c6ijbcCyMQ6UCw8YzxpqWdfiRrKHVWA=" },
};
/* SHA-256 over the two hashes that prove that 256 leaves became 600. */
static const char vector_consistency[] = "57d3b184abda8033e2ff4edb34bdbc78f1b8ae4321d0c621cb22d12f0d191dc7";

/* The note of that tree, signed with the keys made from 32 times the byte 7 and the byte 8. */
static const char vector_log_key[] = "toolcrib.example/t/acme+d57070cf+AepKbGPinFIKvvVQexMuxfmVR3auvr57kkIe6mkURtIs";
static const char vector_epoch_key[] = "toolcrib.example/e/3+bec8b048+AROY9ixtGkV8UbpqS189vS9p/KkyFiGNyJl+QWvRfZPK";
static const char vector_note[] =
	"toolcrib.example/t/acme\n600\nZORtCa8Hi9j7c6ijbcCyMQ6UCw8YzxpqWdfiRrKHVWA=\n\n"
	"\xe2\x80\x94 toolcrib.example/t/acme "
	"1XBwz+29c0dM8ibNRAdsit+ZvQafaSrYVqMR2Q6/GpiAflQzVakLvOlQZ+Nmz8L2zlXZ33APyT36Velk52FcdSTt7Qk=\n"
	"\xe2\x80\x94 toolcrib.example/e/3 "
	"vsiwSBW9cBEjEYQzCSuBoVcYtKpwShLt2sqoS3xtHvWITcKeddm+R6EBGndSUflCOublFxBCc1z8UPVhk19gsTKd2QY=\n";

#endif
