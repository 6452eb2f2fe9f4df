// SPDX-License-Identifier: GPL-2.0-only
/*
 * Tags -> entries, in memory that grows and shrinks with their number.
 *
 * The tag's high bits choose a tree, its low bits a leaf of it: an extendible hash table of up to
 * 31 entries to a leaf of 512 bytes. A full leaf is split by one more bit of the tag, two that are
 * nearly empty become one. Leaves are between half full and full, so an entry takes 16 to 33
 * bytes, 23 on average. Where there is no memory the entry is refused, and nothing else happens.
 */
#include "core.h"

#define ZM_OBJECTS_PER_TREE	4096
#define ZM_TREES_MIN		8
/* The directory of a tree stays within a page of 4 KiB. */
#define ZM_DEPTH_MAX		9

static struct zm_tree *zm_tree_of(struct zm_index *index, u32 tag)
{
	return &index->trees[(u64)tag * index->ntrees >> 32];
}

static struct zm_leaf *zm_leaf_of(struct zm_tree *tree, u32 tag)
{
	lockdep_assert_held(&tree->lock);
	return tree->leaves ? tree->leaves[tag & ((1u << tree->depth) - 1)] : NULL;
}

static void *zm_index_alloc(struct zm_index *index, size_t size)
{
	void *memory = kmalloc(size, ZM_GFP_INDEX);

	if (memory)
		atomic64_add(size, &index->bytes);
	return memory;
}

static void zm_index_free(struct zm_index *index, void *memory, size_t size)
{
	atomic64_sub(size, &index->bytes);
	kfree(memory);
}

int zm_index_init(struct zm_index *index, u64 objects)
{
	u64 trees = max_t(u64, ZM_TREES_MIN, div_u64(objects, ZM_OBJECTS_PER_TREE));
	u32 at;

	BUILD_BUG_ON(sizeof(struct zm_leaf) > 512);
	memset(index, 0, sizeof(*index));
	if (trees > U32_MAX)
		return -EFBIG;
	index->trees = kvcalloc(trees, sizeof(*index->trees), ZM_GFP_SETUP);
	if (!index->trees)
		return -ENOMEM;
	index->ntrees = trees;
	for (at = 0; at < index->ntrees; at++)
		spin_lock_init(&index->trees[at].lock);
	atomic64_set(&index->bytes, trees * sizeof(*index->trees));
	return 0;
}

/* Every leaf is freed at the first of its pointers. */
static void zm_tree_destroy(struct zm_tree *tree)
{
	u32 at, size = 1u << tree->depth;

	if (!tree->leaves)
		return;
	for (at = 0; at < size; at++)
		if (at >= 1u << tree->leaves[at]->depth)
			tree->leaves[at] = NULL;
	for (at = 0; at < size; at++)
		kfree(tree->leaves[at]);
	kfree(tree->leaves);
}

void zm_index_destroy(struct zm_index *index)
{
	u32 at;

	for (at = 0; at < index->ntrees; at++)
		zm_tree_destroy(&index->trees[at]);
	kvfree(index->trees);
	memset(index, 0, sizeof(*index));
}

static struct zm_leaf *zm_leaf_new(struct zm_index *index, u8 depth)
{
	struct zm_leaf *leaf = zm_index_alloc(index, sizeof(*leaf));

	if (leaf) {
		leaf->depth = depth;
		leaf->count = 0;
	}
	return leaf;
}

static bool zm_tree_plant(struct zm_index *index, struct zm_tree *tree)
{
	struct zm_leaf **leaves = zm_index_alloc(index, sizeof(*leaves));

	if (!leaves)
		return false;
	leaves[0] = zm_leaf_new(index, 0);
	if (!leaves[0]) {
		zm_index_free(index, leaves, sizeof(*leaves));
		return false;
	}
	tree->leaves = leaves;
	tree->depth = 0;
	return true;
}

/* Twice the pointers, each leaf pointed to twice as often. */
static bool zm_tree_double(struct zm_index *index, struct zm_tree *tree)
{
	size_t size = sizeof(*tree->leaves) << tree->depth;
	struct zm_leaf **leaves;

	if (tree->depth == ZM_DEPTH_MAX)
		return false;
	leaves = zm_index_alloc(index, 2 * size);
	if (!leaves)
		return false;
	memcpy(leaves, tree->leaves, size);
	memcpy((u8 *)leaves + size, tree->leaves, size);
	zm_index_free(index, tree->leaves, size);
	tree->leaves = leaves;
	tree->depth++;
	return true;
}

static void zm_leaf_append(struct zm_leaf *leaf, u32 tag, u64 value, u32 meta)
{
	leaf->tag[leaf->count] = tag;
	leaf->value[leaf->count] = value;
	leaf->meta[leaf->count++] = meta;
}

/* The last entry takes the place of the one that goes. */
static void zm_leaf_remove(struct zm_leaf *leaf, u32 at)
{
	u32 last = --leaf->count;

	leaf->tag[at] = leaf->tag[last];
	leaf->value[at] = leaf->value[last];
	leaf->meta[at] = leaf->meta[last];
}

/* All pointers whose low @depth bits are those of @tag. */
static void zm_tree_point(struct zm_tree *tree, u32 tag, u8 depth, struct zm_leaf *leaf)
{
	u32 at = tag & ((1u << depth) - 1);

	for (; at < 1u << tree->depth; at += 1u << depth)
		tree->leaves[at] = leaf;
}

static bool zm_leaf_split(struct zm_index *index, struct zm_tree *tree, struct zm_leaf *leaf)
{
	u32 bit = 1u << leaf->depth, at;
	struct zm_leaf *upper;

	if (leaf->depth == tree->depth && !zm_tree_double(index, tree))
		return false;
	upper = zm_leaf_new(index, leaf->depth + 1);
	if (!upper)
		return false;
	leaf->depth++;
	zm_tree_point(tree, leaf->tag[0] | bit, leaf->depth, upper);
	for (at = leaf->count; at--;) {
		if (!(leaf->tag[at] & bit))
			continue;
		zm_leaf_append(upper, leaf->tag[at], leaf->value[at], leaf->meta[at]);
		zm_leaf_remove(leaf, at);
	}
	return true;
}

static struct zm_leaf *zm_leaf_with_room(struct zm_index *index, struct zm_tree *tree, u32 tag)
{
	struct zm_leaf *leaf;

	if (!tree->leaves && !zm_tree_plant(index, tree))
		return NULL;
	for (;;) {
		leaf = zm_leaf_of(tree, tag);
		if (leaf->count < ZM_LEAF_ENTRIES)
			return leaf;
		if (!zm_leaf_split(index, tree, leaf))
			return NULL;
	}
}

/* False when there is no memory for it. The same tag may be added many times. */
bool zm_index_add(struct zm_index *index, u32 tag, u64 value, u32 meta)
{
	struct zm_tree *tree = zm_tree_of(index, tag);
	struct zm_leaf *leaf;

	spin_lock(&tree->lock);
	leaf = zm_leaf_with_room(index, tree, tag);
	if (leaf)
		zm_leaf_append(leaf, tag, value, meta);
	spin_unlock(&tree->lock);
	return leaf;
}

/* Two halves of a bit become one where they leave room; the directory stays as large as it was. */
static void zm_leaf_join(struct zm_index *index, struct zm_tree *tree, u32 tag)
{
	struct zm_leaf *leaf = zm_leaf_of(tree, tag), *other;
	u32 at;

	if (!leaf->depth)
		return;
	other = zm_leaf_of(tree, tag ^ (1u << (leaf->depth - 1)));
	if (other->depth != leaf->depth || other->count + leaf->count > ZM_LEAF_ENTRIES / 2)
		return;
	for (at = 0; at < other->count; at++)
		zm_leaf_append(leaf, other->tag[at], other->value[at], other->meta[at]);
	leaf->depth--;
	zm_tree_point(tree, tag, leaf->depth, leaf);
	zm_index_free(index, other, sizeof(*other));
}

/* Where @tag is next, from @at on, at most leaf->count; that where it is not. */
static u32 zm_leaf_find(struct zm_leaf *leaf, u32 tag, u32 at)
{
	const u32 *look = leaf->tag + at;

	leaf->tag[leaf->count] = tag;
	while (*look != tag)
		look++;
	return look - leaf->tag;
}

static struct zm_leaf *zm_leaf_find_value(struct zm_tree *tree, u32 tag, u64 value, u32 *at)
{
	struct zm_leaf *leaf = zm_leaf_of(tree, tag);

	if (!leaf)
		return NULL;
	for (*at = zm_leaf_find(leaf, tag, 0); *at < leaf->count; *at = zm_leaf_find(leaf, tag, *at + 1))
		if (leaf->value[*at] == value)
			return leaf;
	return NULL;
}

static u32 zm_refs(u32 meta)
{
	return meta >> ZM_LEN_BITS;
}

#define ZM_ONE_REF	(1u << ZM_LEN_BITS)

/*
 * One more reference to the @nth object under @tag that can take one. *full: how many objects that cannot were
 * passed over.
 */
bool zm_index_take(struct zm_index *index, u32 tag, u32 nth, struct zm_slot *object, u32 *full)
{
	struct zm_tree *tree = zm_tree_of(index, tag);
	struct zm_leaf *leaf;
	bool found = false;
	u32 at;

	*full = 0;
	spin_lock(&tree->lock);
	leaf = zm_leaf_of(tree, tag);
	for (at = leaf ? zm_leaf_find(leaf, tag, 0) : 0; leaf && at < leaf->count;
	     at = zm_leaf_find(leaf, tag, at + 1)) {
		if (zm_refs(leaf->meta[at]) == ZM_REFS_MAX) {
			++*full;
			continue;
		}
		if (nth--)
			continue;
		leaf->meta[at] += ZM_ONE_REF;
		*object = zm_slot_of(ZM_INDEXED, leaf->value[at], leaf->meta[at] & ZM_LEN_MASK, tag);
		found = true;
		break;
	}
	spin_unlock(&tree->lock);
	return found;
}

/* One more reference to an object that has one; false when it has as many as can be counted. */
bool zm_index_take_object(struct zm_index *index, u32 tag, u64 handle)
{
	struct zm_tree *tree = zm_tree_of(index, tag);
	struct zm_leaf *leaf;
	bool taken = false;
	u32 at;

	spin_lock(&tree->lock);
	leaf = zm_leaf_find_value(tree, tag, handle, &at);
	if (!WARN_ON_ONCE(!leaf) && zm_refs(leaf->meta[at]) < ZM_REFS_MAX) {
		leaf->meta[at] += ZM_ONE_REF;
		taken = true;
	}
	spin_unlock(&tree->lock);
	return taken;
}

/* Whether an object has as many references as can be counted. */
bool zm_index_full(struct zm_index *index, u32 tag, u64 handle)
{
	struct zm_tree *tree = zm_tree_of(index, tag);
	struct zm_leaf *leaf;
	bool full = false;
	u32 at;

	spin_lock(&tree->lock);
	leaf = zm_leaf_find_value(tree, tag, handle, &at);
	if (!WARN_ON_ONCE(!leaf))
		full = zm_refs(leaf->meta[at]) == ZM_REFS_MAX;
	spin_unlock(&tree->lock);
	return full;
}

/* One reference less; true when that was the last one and the entry is gone. */
bool zm_index_drop(struct zm_index *index, u32 tag, u64 handle)
{
	struct zm_tree *tree = zm_tree_of(index, tag);
	struct zm_leaf *leaf;
	bool last = false;
	u32 at;

	spin_lock(&tree->lock);
	leaf = zm_leaf_find_value(tree, tag, handle, &at);
	if (!WARN_ON_ONCE(!leaf)) {
		leaf->meta[at] -= ZM_ONE_REF;
		last = !zm_refs(leaf->meta[at]);
		if (last) {
			zm_leaf_remove(leaf, at);
			zm_leaf_join(index, tree, tag);
		}
	}
	spin_unlock(&tree->lock);
	return last;
}

/* Removes the entry of an object that has one reference: that slot keeps it without an entry. */
bool zm_index_forget_single(struct zm_index *index, u32 tag, u64 handle)
{
	struct zm_tree *tree = zm_tree_of(index, tag);
	struct zm_leaf *leaf;
	bool single = false;
	u32 at;

	spin_lock(&tree->lock);
	leaf = zm_leaf_find_value(tree, tag, handle, &at);
	if (!WARN_ON_ONCE(!leaf) && zm_refs(leaf->meta[at]) == 1) {
		zm_leaf_remove(leaf, at);
		zm_leaf_join(index, tree, tag);
		single = true;
	}
	spin_unlock(&tree->lock);
	return single;
}
