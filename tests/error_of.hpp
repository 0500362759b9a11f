// The error that something ends with.
#pragma once

#include "catch.hpp"
#include "quern/base/check.hpp"

namespace quern::test {

/// Of f(); the test fails when there is none.
template <class F>
Error error_of(F&& f) {
  try {
    f();
  } catch (const Error& error) {
    return error;
  }
  FAIL("no error");
  throw Bug("unreachable");
}

}  // namespace quern::test
