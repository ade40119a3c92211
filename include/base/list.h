#ifndef BASE_LIST_H
#define BASE_LIST_H

#include <stdbool.h>

/* Doubly linked intrusive lists.  A node that is in no list points to itself, so list_unlink() is
 * idempotent. */
struct list {
	struct list *next, *prev;
};

static inline void list_init(struct list *l)
{
	l->next = l->prev = l;
}

static inline bool list_empty(const struct list *l)
{
	return l->next == l;
}

static inline void list_push_back(struct list *head, struct list *n)
{
	n->prev = head->prev;
	n->next = head;
	head->prev->next = n;
	head->prev = n;
}

static inline void list_push_front(struct list *head, struct list *n)
{
	n->next = head->next;
	n->prev = head;
	head->next->prev = n;
	head->next = n;
}

static inline void list_unlink(struct list *n)
{
	n->prev->next = n->next;
	n->next->prev = n->prev;
	list_init(n);
}

#define LIST_FOREACH(n, head) for (struct list *n = (head)->next; n != (head); n = n->next)
/* Safe when n itself is unlinked in the body. */
#define LIST_FOREACH_SAFE(n, tmp, head) \
	for (struct list *n = (head)->next, *tmp = n->next; n != (head); n = tmp, tmp = n->next)

#endif
