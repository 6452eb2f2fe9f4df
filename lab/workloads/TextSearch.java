// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// A text search in a JVM: an inverted index over synthetic text, and queries against it. No file is
// read and no text is kept: words are numbers, chosen from a Zipf distribution with a seed, so that
// the same arguments give the same index and the same queries everywhere.
//
//     java -Xmx400m lab/workloads/TextSearch.java [megabytes [queries [seed]]]
//
// Postings are stored as in search engines: for each word, gaps between documents and numbers of
// occurrences, as variable-length bytes. A document with several words is found by walking the
// lists of all of them; the ten best by tf-idf are kept. Queries decide which memory is accessed:
// frequent words again and again, most lists only once in a while, which is why such a JVM suffers
// from swap.

import java.util.Arrays;
import java.util.PriorityQueue;
import java.util.SplittableRandom;

final class TextSearch {
    /** Number of different words. */
    private static final int WORDS = 200_000;
    /** Number of words in a document. */
    private static final int LENGTH = 120;
    /** Maximum number of documents that a query returns. */
    private static final int BEST = 10;
    /** Queries never contain the most frequent words, because rare words find most documents. */
    private static final int STOP_WORDS = 50;

    public static void main(String[] arguments) {
        long megabytes = argument(arguments, 0, 150);
        int queries = Math.toIntExact(argument(arguments, 1, 20_000));
        long seed = argument(arguments, 2, 1);
        long begun = System.nanoTime();
        Index index = Index.of(new SplittableRandom(seed), megabytes << 20);
        System.out.printf("indexed %d documents, %d postings, %d MiB in %.1f s%n", index.documents,
                index.postings, index.bytes >> 20, seconds(begun));
        ask(index, new SplittableRandom(seed + 1), queries);
    }

    private static long argument(String[] arguments, int at, long otherwise) {
        if (arguments.length <= at) {
            return otherwise;
        }
        try {
            long number = Long.parseLong(arguments[at]);
            if (number > 0) {
                return number;
            }
        } catch (NumberFormatException notANumber) {
            // the error is printed below
        }
        System.err.println("expected MEGABYTES QUERIES SEED, each above 0, found " + arguments[at]);
        System.exit(2);
        return 0;
    }

    /** Runs the queries. The first tenth warms up the JIT compiler and is not measured. */
    private static void ask(Index index, SplittableRandom random, int queries) {
        int discarded = queries / 10;
        long[] took = new long[queries - discarded];
        long found = 0;
        long begun = System.nanoTime();
        for (int query = 0; query < queries; query++) {
            if (query == discarded) {
                begun = System.nanoTime();
            }
            long before = System.nanoTime();
            found += index.search(words(random));
            if (query >= discarded) {
                took[query - discarded] = System.nanoTime() - before;
            }
        }
        double seconds = seconds(begun);
        Arrays.sort(took);
        System.out.printf("found: %d%n", found);
        System.out.printf("p50 microseconds: %.1f%n", took[took.length / 2] / 1e3);
        System.out.printf("p99 microseconds: %.1f%n", took[(int) (took.length * 0.99)] / 1e3);
        System.out.printf("queries per second: %.1f%n", took.length / seconds);
    }

    /** Two or three words, none of them a stop word, one of them uniformly random. */
    private static int[] words(SplittableRandom random) {
        int[] words = new int[2 + random.nextInt(2)];
        words[0] = STOP_WORDS + random.nextInt(WORDS - STOP_WORDS);
        for (int at = 1; at < words.length; at++) {
            words[at] = Math.max(STOP_WORDS, zipf(random));
        }
        return words;
    }

    private static double seconds(long begun) {
        return (System.nanoTime() - begun) / 1e9;
    }

    /** A random number from a Zipf distribution: k has a probability of about 1 / k. */
    private static int zipf(SplittableRandom random) {
        return (int) Math.exp(random.nextDouble() * Math.log(WORDS + 1)) - 1;
    }

    /** The documents that contain one word, in ascending order. */
    private static final class Postings {
        private byte[] bytes = new byte[8];
        private int used;
        private int last;
        private int documents;

        int capacity() {
            return bytes.length;
        }

        void add(int document, int occurrences) {
            if (bytes.length - used < 10) {
                bytes = Arrays.copyOf(bytes, bytes.length + bytes.length / 2 + 10);
            }
            put(document - last);
            put(occurrences);
            last = document;
            documents++;
        }

        private void put(int number) {
            int left = number;
            while (left > 127) {
                bytes[used++] = (byte) (left | 128);
                left >>>= 7;
            }
            bytes[used++] = (byte) left;
        }
    }

    /** A position in a list of postings. */
    private static final class Cursor {
        private final Postings postings;
        private int at;
        private int document;
        private int occurrences;

        Cursor(Postings postings) {
            this.postings = postings;
        }

        /** Moves to the document, or to the next one after it; false at the end. */
        boolean reach(int wanted) {
            while (document < wanted) {
                if (at == postings.used) {
                    return false;
                }
                document += next();
                occurrences = next();
            }
            return true;
        }

        private int next() {
            int number = 0;
            for (int shift = 0; ; shift += 7) {
                byte part = postings.bytes[at++];
                number |= (part & 127) << shift;
                if (part >= 0) {
                    return number;
                }
            }
        }
    }

    private record Hit(int document, double score) {
    }

    /** All postings. Documents are numbered from 1. */
    private static final class Index {
        private final Postings[] words = new Postings[WORDS];
        private int documents;
        private long postings;
        private long bytes;

        static Index of(SplittableRandom random, long bytes) {
            Index index = new Index();
            int[] text = new int[LENGTH];
            while (index.bytes < bytes) {
                for (int at = 0; at < LENGTH; at++) {
                    text[at] = zipf(random);
                }
                Arrays.sort(text);
                index.add(text);
            }
            return index;
        }

        private void add(int[] text) {
            documents++;
            for (int at = 0; at < text.length; ) {
                int end = at;
                while (end < text.length && text[end] == text[at]) {
                    end++;
                }
                Postings list = words[text[at]];
                if (list == null) {
                    list = new Postings();
                    words[text[at]] = list;
                    bytes += list.capacity();
                }
                int before = list.capacity();
                list.add(documents, end - at);
                bytes += list.capacity() - before;
                postings++;
                at = end;
            }
        }

        /** The number of documents with all words; the best of them are ranked, and the ranking is discarded. */
        long search(int[] wanted) {
            Cursor[] cursors = new Cursor[wanted.length];
            for (int at = 0; at < wanted.length; at++) {
                if (words[wanted[at]] == null) {
                    return 0;
                }
                cursors[at] = new Cursor(words[wanted[at]]);
            }
            Arrays.sort(cursors, (a, b) -> Integer.compare(a.postings.documents, b.postings.documents));
            PriorityQueue<Hit> best = new PriorityQueue<>(BEST + 1, (a, b) -> Double.compare(a.score, b.score));
            long found = 0;
            for (int document = together(cursors, 1); document > 0; document = together(cursors, document + 1)) {
                found++;
                best.add(new Hit(document, score(cursors)));
                if (best.size() > BEST) {
                    best.poll();
                }
            }
            return found;
        }

        /** The next document, from this one on, that all lists contain; 0 if there is none. */
        private static int together(Cursor[] cursors, int from) {
            int wanted = from;
            for (int agreed = 0, at = 0; agreed < cursors.length; at = (at + 1) % cursors.length) {
                if (!cursors[at].reach(wanted)) {
                    return 0;
                }
                agreed = cursors[at].document == wanted ? agreed + 1 : 1;
                wanted = cursors[at].document;
            }
            return wanted;
        }

        private double score(Cursor[] cursors) {
            double score = 0;
            for (Cursor cursor : cursors) {
                double rarity = Math.log(1 + (double) documents / cursor.postings.documents);
                score += (1 + Math.log(cursor.occurrences)) * rarity;
            }
            return score;
        }
    }
}
