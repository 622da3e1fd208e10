#include "cli/exit_code.h"

#include <iostream>

namespace roost::cli {

int report_failure(std::string_view command, const Error& error) {
  std::cerr << "roost " << command << ": " << error.message << std::endl;
  return error.kind == ErrorKind::bad_config ? kExitConfig : kExitFailure;
}

}  // namespace roost::cli
