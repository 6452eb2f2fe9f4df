// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// Counts words in standard containers whose memory comes from a pool.
//
//	c++ -std=c++17 words.cpp $(pkg-config --cflags --libs hugepool)
#include <cassert>
#include <cstdio>
#include <list>
#include <map>
#include <string>
#include <vector>

#include <hugepool.hpp>

int main()
{
	hugepool_pmr::resource pool;
	hugepool_stats stats;
	{
		std::pmr::map<std::pmr::string, std::pmr::vector<int>> words(&pool);
		std::pmr::list<std::pmr::string> order(&pool);
		for (int number = 0; number < 100000; number++) {
			std::pmr::string word("a word that is longer than a short string, ", &pool);
			word += std::to_string(number % 5000);
			words[word].push_back(number);
			order.push_back(std::move(word));
		}
		if (words.size() != 5000 || order.size() != 100000)
			return 1;
		for (const auto &[word, numbers] : words)
			if (numbers.size() != 20 || word.get_allocator().resource() != &pool)
				return 1;
		if (hugepool_statistics(pool.pool(), &stats) != HUGEPOOL_OK || stats.live_blocks < 110000)
			return 1;
		std::printf("%llu blocks, %llu KiB\n", static_cast<unsigned long long>(stats.live_blocks),
			    static_cast<unsigned long long>(stats.live >> 10));
	}
	if (hugepool_statistics(pool.pool(), &stats) != HUGEPOOL_OK || stats.live_blocks != 0)
		return 1;
	try {
		(void)pool.allocate(static_cast<std::size_t>(1) << 60);
		return 1;
	} catch (const std::bad_alloc &) {
		std::puts("2^60 bytes are refused");
	}
	return 0;
}
