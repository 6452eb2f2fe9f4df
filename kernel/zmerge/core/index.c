// SPDX-License-Identifier: GPL-2.0-only
/*
 * The index of inline merging: tags -> entries, in memory that grows and shrinks with their number.
 *
 * The high bits of the tag select a tree, its low bits a leaf of that tree: an extendible hash
 * table with up to 31 entries to a leaf of 512 bytes. A full leaf is split by one more bit of the tag;
 * two sibling leaves whose entries fill at most half of one are joined. A leaf that is less than
 * half full is reallocated smaller, and a full small one larger. So an entry takes 16 to 33 bytes
 * whatever their number, if a tree has more than a few. The directory has as many bits as the
 * deepest leaf. A tree without entries has neither leaves nor directory.
 *
 * If there is no memory for an entry, it is not added, which has no other effect. If there is none
 * for a smaller leaf or directory, the larger one stays until the next entry is removed.
 */
#include "core.h"

#define ZM_OBJECTS_PER_TREE	4096
#define ZM_TREES_MIN		8
/* Limits the directory of a tree to a page of 4 KiB. */
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

static u32 zm_leaf_bytes(u32 room)
{
	return 16 * (room + 1);
}

static u32 *zm_leaf_tags(struct zm_leaf *leaf)
{
	return (u32 *)(leaf->values + leaf->room);
}

static u32 *zm_leaf_metas(struct zm_leaf *leaf)
{
	return zm_leaf_tags(leaf) + leaf->room + 1;
}

int zm_index_init(struct zm_index *index, u64 objects)
{
	u64 trees = max_t(u64, ZM_TREES_MIN, div_u64(objects, ZM_OBJECTS_PER_TREE));
	u32 at;

	BUILD_BUG_ON(sizeof(struct zm_leaf) + sizeof(u32) > 16);
	BUILD_BUG_ON(ZM_LEAF_ENTRIES << ZM_DEPTH_MAX > U16_MAX);
	BUILD_BUG_ON(ZM_LEAF_ENTRIES & (ZM_LEAF_ENTRIES + 1) || ZM_LEAF_ENTRIES > U8_MAX);
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

/* A leaf has several pointers; all but the first are cleared, so that each leaf is freed once. */
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

static struct zm_leaf *zm_leaf_new(struct zm_index *index, u8 depth, u32 room)
{
	struct zm_leaf *leaf = zm_index_alloc(index, zm_leaf_bytes(room));

	if (leaf) {
		leaf->depth = depth;
		leaf->count = 0;
		leaf->room = room;
	}
	return leaf;
}

static void zm_leaf_free(struct zm_index *index, struct zm_leaf *leaf)
{
	zm_index_free(index, leaf, zm_leaf_bytes(leaf->room));
}

static bool zm_tree_plant(struct zm_index *index, struct zm_tree *tree)
{
	struct zm_leaf **leaves = zm_index_alloc(index, sizeof(*leaves));

	if (!leaves)
		return false;
	leaves[0] = zm_leaf_new(index, 0, 1);
	if (!leaves[0]) {
		zm_index_free(index, leaves, sizeof(*leaves));
		return false;
	}
	tree->leaves = leaves;
	tree->depth = 0;
	return true;
}

/* Doubles the directory: each leaf gets twice as many pointers. */
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

/* Shrinks the directory to the depth of its deepest leaf. */
static void zm_tree_shrink(struct zm_index *index, struct zm_tree *tree)
{
	u32 at, size = 1u << tree->depth, depth = 0;
	struct zm_leaf **leaves;

	for (at = 0; at < size && depth < tree->depth; at++)
		depth = max_t(u32, depth, tree->leaves[at]->depth);
	if (depth == tree->depth)
		return;
	leaves = zm_index_alloc(index, sizeof(*leaves) << depth);
	if (!leaves)
		return;
	memcpy(leaves, tree->leaves, sizeof(*leaves) << depth);
	zm_index_free(index, tree->leaves, sizeof(*leaves) << tree->depth);
	tree->leaves = leaves;
	tree->depth = depth;
}

static void zm_leaf_append(struct zm_leaf *leaf, u32 tag, u64 value, u32 meta)
{
	zm_leaf_tags(leaf)[leaf->count] = tag;
	zm_leaf_metas(leaf)[leaf->count] = meta;
	leaf->values[leaf->count++] = value;
}

static void zm_leaf_append_all(struct zm_leaf *leaf, struct zm_leaf *from)
{
	u32 at;

	for (at = 0; at < from->count; at++)
		zm_leaf_append(leaf, zm_leaf_tags(from)[at], from->values[at], zm_leaf_metas(from)[at]);
}

/* Removes an entry: the last entry takes its place. */
static void zm_leaf_remove(struct zm_leaf *leaf, u32 at)
{
	u32 last = --leaf->count;

	zm_leaf_tags(leaf)[at] = zm_leaf_tags(leaf)[last];
	zm_leaf_metas(leaf)[at] = zm_leaf_metas(leaf)[last];
	leaf->values[at] = leaf->values[last];
}

/* Lets all pointers whose low @depth bits equal those of @tag point to @leaf. */
static void zm_tree_point(struct zm_tree *tree, u32 tag, u8 depth, struct zm_leaf *leaf)
{
	u32 at = tag & ((1u << depth) - 1);

	for (; at < 1u << tree->depth; at += 1u << depth)
		tree->leaves[at] = leaf;
}

/* Moves the entries to a leaf with another room; false without memory. */
static bool zm_leaf_resize(struct zm_index *index, struct zm_tree *tree, struct zm_leaf *leaf, u32 tag, u32 room)
{
	struct zm_leaf *other = zm_leaf_new(index, leaf->depth, room);

	if (!other)
		return false;
	zm_leaf_append_all(other, leaf);
	zm_tree_point(tree, tag, leaf->depth, other);
	zm_leaf_free(index, leaf);
	return true;
}

static bool zm_leaf_split(struct zm_index *index, struct zm_tree *tree, struct zm_leaf *leaf)
{
	u32 bit = 1u << leaf->depth, at;
	struct zm_leaf *upper;

	if (leaf->depth == tree->depth && !zm_tree_double(index, tree))
		return false;
	upper = zm_leaf_new(index, leaf->depth + 1, ZM_LEAF_ENTRIES);
	if (!upper)
		return false;
	leaf->depth++;
	zm_tree_point(tree, zm_leaf_tags(leaf)[0] | bit, leaf->depth, upper);
	for (at = leaf->count; at--;) {
		u32 tag = zm_leaf_tags(leaf)[at];

		if (!(tag & bit))
			continue;
		zm_leaf_append(upper, tag, leaf->values[at], zm_leaf_metas(leaf)[at]);
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
		if (leaf->count < leaf->room)
			return leaf;
		if (leaf->room < ZM_LEAF_ENTRIES ? !zm_leaf_resize(index, tree, leaf, tag, 2 * leaf->room + 1) :
		    !zm_leaf_split(index, tree, leaf))
			return NULL;
	}
}

static u32 zm_refs(u32 meta)
{
	return meta >> ZM_LEN_BITS;
}

#define ZM_ONE_REF	(1u << ZM_LEN_BITS)

/* Adds an entry; false without memory. The same tag may be added many times. */
bool zm_index_add(struct zm_index *index, u32 tag, u64 value, u32 meta)
{
	struct zm_tree *tree = zm_tree_of(index, tag);
	struct zm_leaf *leaf;

	spin_lock(&tree->lock);
	leaf = zm_leaf_with_room(index, tree, tag);
	if (leaf) {
		zm_leaf_append(leaf, tag, value, meta);
		tree->singles += zm_refs(meta) == 1;
	}
	spin_unlock(&tree->lock);
	return leaf;
}

/* The smallest room for @count entries; with more than one entry, one is left free. */
static u32 zm_leaf_room(u32 count)
{
	u32 room = 1;

	while (room < count + (count > 1) && room < ZM_LEAF_ENTRIES)
		room = 2 * room + 1;
	return room;
}

/* Joins the leaf with its sibling if together they fill at most half a leaf; false if not. */
static bool zm_leaf_join(struct zm_index *index, struct zm_tree *tree, u32 tag)
{
	struct zm_leaf *leaf = zm_leaf_of(tree, tag), *other;
	u32 count;

	if (!leaf->depth)
		return false;
	other = zm_leaf_of(tree, tag ^ (1u << (leaf->depth - 1)));
	count = leaf->count + other->count;
	if (other->depth != leaf->depth || count > ZM_LEAF_ENTRIES / 2)
		return false;
	if (count > max_t(u32, leaf->room, other->room) &&
	    !zm_leaf_resize(index, tree, leaf, tag, zm_leaf_room(count)))
		return false;
	leaf = zm_leaf_of(tree, tag);
	if (leaf->room < count) {
		zm_leaf_append_all(other, leaf);
		zm_leaf_free(index, leaf);
		leaf = other;
	} else {
		zm_leaf_append_all(leaf, other);
		zm_leaf_free(index, other);
	}
	leaf->depth--;
	zm_tree_point(tree, tag, leaf->depth, leaf);
	return true;
}

/*
 * After an entry under @tag was removed: joins and shrinks leaves and the directory as far as
 * possible.
 */
static void zm_tree_trim(struct zm_index *index, struct zm_tree *tree, u32 tag)
{
	struct zm_leaf *leaf;
	bool joined = false;
	u32 room;

	while (zm_leaf_join(index, tree, tag))
		joined = true;
	leaf = zm_leaf_of(tree, tag);
	if (!leaf->depth && !leaf->count) {
		zm_leaf_free(index, leaf);
		zm_index_free(index, tree->leaves, sizeof(*tree->leaves) << tree->depth);
		tree->leaves = NULL;
		tree->depth = 0;
		return;
	}
	room = zm_leaf_room(leaf->count);
	if (room < leaf->room)
		zm_leaf_resize(index, tree, leaf, tag, room);
	if (joined)
		zm_tree_shrink(index, tree);
}

/* The position of the next entry with @tag from @at on; leaf->count if there is none. */
static u32 zm_leaf_find(struct zm_leaf *leaf, u32 tag, u32 at)
{
	u32 *tags = zm_leaf_tags(leaf);
	const u32 *look = tags + at;

	tags[leaf->count] = tag;
	while (*look != tag)
		look++;
	return look - tags;
}

static struct zm_leaf *zm_leaf_find_value(struct zm_tree *tree, u32 tag, u64 value, u32 *at)
{
	struct zm_leaf *leaf = zm_leaf_of(tree, tag);

	if (!leaf)
		return NULL;
	for (*at = zm_leaf_find(leaf, tag, 0); *at < leaf->count; *at = zm_leaf_find(leaf, tag, *at + 1))
		if (leaf->values[*at] == value)
			return leaf;
	return NULL;
}

static void zm_tree_get(struct zm_tree *tree, u32 *meta)
{
	tree->singles -= zm_refs(*meta) == 1;
	*meta += ZM_ONE_REF;
}

/*
 * Takes a reference to the @nth object under @tag that can take one. If there is none, the result
 * is empty, and its value is the number of objects under @tag whose references are at the maximum.
 */
struct zm_slot zm_index_get_nth(struct zm_index *index, u32 tag, u32 nth)
{
	struct zm_tree *tree = zm_tree_of(index, tag);
	struct zm_slot object = { 0 };
	struct zm_leaf *leaf;
	u32 at, *meta;

	spin_lock(&tree->lock);
	leaf = zm_leaf_of(tree, tag);
	for (at = leaf ? zm_leaf_find(leaf, tag, 0) : 0; leaf && at < leaf->count;
	     at = zm_leaf_find(leaf, tag, at + 1)) {
		meta = zm_leaf_metas(leaf) + at;
		if (zm_refs(*meta) == ZM_REFS_MAX) {
			object.value++;
			continue;
		}
		if (nth--)
			continue;
		zm_tree_get(tree, meta);
		object = zm_slot_of(ZM_INDEXED, leaf->values[at], *meta & ZM_LEN_MASK, tag);
		break;
	}
	spin_unlock(&tree->lock);
	return object;
}

/* Takes another reference to an object that has one; false if it has the maximum number. */
bool zm_index_get(struct zm_index *index, u32 tag, u64 handle)
{
	struct zm_tree *tree = zm_tree_of(index, tag);
	struct zm_leaf *leaf;
	bool taken = false;
	u32 at;

	spin_lock(&tree->lock);
	leaf = zm_leaf_find_value(tree, tag, handle, &at);
	if (!WARN_ON_ONCE(!leaf) && zm_refs(zm_leaf_metas(leaf)[at]) < ZM_REFS_MAX) {
		zm_tree_get(tree, zm_leaf_metas(leaf) + at);
		taken = true;
	}
	spin_unlock(&tree->lock);
	return taken;
}

/* Whether the object has the maximum number of references. */
bool zm_index_full(struct zm_index *index, u32 tag, u64 handle)
{
	struct zm_tree *tree = zm_tree_of(index, tag);
	struct zm_leaf *leaf;
	bool full = false;
	u32 at;

	spin_lock(&tree->lock);
	leaf = zm_leaf_find_value(tree, tag, handle, &at);
	if (!WARN_ON_ONCE(!leaf))
		full = zm_refs(zm_leaf_metas(leaf)[at]) == ZM_REFS_MAX;
	spin_unlock(&tree->lock);
	return full;
}

/* Removes an entry that has one reference or none. */
static void zm_tree_remove(struct zm_index *index, struct zm_tree *tree, struct zm_leaf *leaf, u32 tag, u32 at)
{
	tree->singles--;
	zm_leaf_remove(leaf, at);
	zm_tree_trim(index, tree, tag);
}

/* Drops a reference; true if it was the last one: then the entry has been removed. */
bool zm_index_put(struct zm_index *index, u32 tag, u64 handle)
{
	struct zm_tree *tree = zm_tree_of(index, tag);
	struct zm_leaf *leaf;
	bool last = false;
	u32 at, *meta;

	spin_lock(&tree->lock);
	leaf = zm_leaf_find_value(tree, tag, handle, &at);
	if (!WARN_ON_ONCE(!leaf)) {
		meta = zm_leaf_metas(leaf) + at;
		*meta -= ZM_ONE_REF;
		last = !zm_refs(*meta);
		tree->singles += zm_refs(*meta) == 1;
		if (last)
			zm_tree_remove(index, tree, leaf, tag, at);
	}
	spin_unlock(&tree->lock);
	return last;
}

/* Removes the entry of an object with a single reference: its slot can keep it without an entry. */
bool zm_index_forget_single(struct zm_index *index, u32 tag, u64 handle)
{
	struct zm_tree *tree = zm_tree_of(index, tag);
	struct zm_leaf *leaf;
	bool single = false;
	u32 at;

	spin_lock(&tree->lock);
	leaf = zm_leaf_find_value(tree, tag, handle, &at);
	if (!WARN_ON_ONCE(!leaf) && zm_refs(zm_leaf_metas(leaf)[at]) == 1) {
		zm_tree_remove(index, tree, leaf, tag, at);
		single = true;
	}
	spin_unlock(&tree->lock);
	return single;
}

/**
 * zm_index_singles - the number of entries that zm_forget_some() could remove
 * @index: the index
 *
 * Context: never sleeps.
 * Return: the number of entries with one reference.
 */
u64 zm_index_singles(struct zm_index *index)
{
	u64 singles = 0;
	u32 at;

	for (at = 0; at < index->ntrees; at++) {
		spin_lock(&index->trees[at].lock);
		singles += index->trees[at].singles;
		spin_unlock(&index->trees[at].lock);
	}
	return singles;
}
