// The reading part of the common suite on SQLite.
#include "tests/storage/read_suite.hpp"

namespace parley::storage::test {

INSTANTIATE_TYPED_TEST_SUITE_P(sqlite, read_suite, ::testing::Types<sqlite_backend>);

}  // namespace parley::storage::test
