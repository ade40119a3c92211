#ifndef SRC_SCHEMA_META_INT_H
#define SRC_SCHEMA_META_INT_H

/* The meta-schemas and their vocabularies, as published. */

struct meta_text { const char *uri, *text; };
extern const struct meta_text meta_texts[];     /* ends with uri NULL */

#endif
