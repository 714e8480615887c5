// SPDX-License-Identifier: Apache-2.0
#include "launcher/base/stack_limit.h"
#include "launcher/cli/commands.h"
#include "launcher/convert/conversion.h"
#include "launcher/service/service.h"

int main(int argc, char** argv) {
  tbprof::RaiseStackLimit();
  if (tbprof::IsConvertWorker(argc, argv)) return tbprof::ConvertWorker();
  if (tbprof::IsServiceWorker(argc, argv)) return tbprof::ServiceWorker(argv[2], argv[3], argv[4]);
  return tbprof::RunTbprof(argc, argv);
}
