// SPDX-License-Identifier: Apache-2.0
#include "launcher/commands.h"
#include "launcher/conversion.h"

int main(int argc, char** argv) {
  if (tbprof::IsConvertWorker(argc, argv)) return tbprof::ConvertWorker();
  return tbprof::RunTbprof(argc, argv);
}
