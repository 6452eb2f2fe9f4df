// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// A std::pmr::memory_resource whose memory is a pool of huge pages (C++17).
//
//	hugepool_pmr::resource sessions;
//	std::pmr::vector<int> numbers(&sessions);
//
// Errors are thrown as std::bad_alloc, as containers expect. Wrong releases are refused and
// counted.
#ifndef HUGEPOOL_HPP
#define HUGEPOOL_HPP

#include <memory_resource>
#include <new>
#include <stdexcept>

#include "hugepool.h"

namespace hugepool_pmr {

class resource : public std::pmr::memory_resource {
public:
	// Throws std::runtime_error with the reason if the pool cannot be created.
	explicit resource(hugepool_options options = HUGEPOOL_LONG_LIVED)
	{
		if (int result = hugepool_create(&options, &pool_); result != HUGEPOOL_OK)
			throw std::runtime_error(hugepool_message(result));
	}

	// Returns all memory to the kernel: no container may use the resource any more.
	~resource() override { hugepool_destroy(pool_); }

	resource(const resource &) = delete;
	resource &operator=(const resource &) = delete;

	// The pool, for statistics and coverage.
	hugepool *pool() const noexcept { return pool_; }

protected:
	void *do_allocate(std::size_t size, std::size_t alignment) override
	{
		void *block = nullptr;
		// Containers may request 0 bytes and expect an address.
		if (hugepool_allocate(pool_, size ? size : 1, alignment, &block) != HUGEPOOL_OK)
			throw std::bad_alloc();
		return block;
	}

	void do_deallocate(void *block, std::size_t size, std::size_t alignment) override
	{
		(void)hugepool_release_sized(pool_, block, size ? size : 1, alignment);
	}

	bool do_is_equal(const std::pmr::memory_resource &other) const noexcept override
	{
		return this == &other;
	}

private:
	hugepool *pool_ = nullptr;
};

} // namespace hugepool_pmr

#endif
