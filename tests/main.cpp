#if __has_include(<catch2/catch_all.hpp>)
#include <catch2/catch_session.hpp>
#else
#define CATCH_CONFIG_RUNNER
#include <catch2/catch.hpp>
#endif

#include <iostream>

#include "quern/base/check.hpp"
#include "quern/base/cpu.hpp"

int main(int argc, char* argv[]) {
  try {
    quern::isa();
  } catch (const quern::Error& error) {
    std::cerr << quern::format(error);
    return 77;  // CTest's mark of a test that this machine cannot run
  }
  return Catch::Session().run(argc, argv);
}
