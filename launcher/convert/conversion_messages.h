// SPDX-License-Identifier: Apache-2.0
//
// Messages between the launcher and its convert worker: the request, and the lines of the reply, as JSON.
//
// A path is bytes and JSON is text: each byte of a path is sent as the character with that code point.
//
// Process: launcher and convert worker. Pure functions.
#ifndef TBPROF_LAUNCHER_CONVERT_CONVERSION_MESSAGES_H_
#define TBPROF_LAUNCHER_CONVERT_CONVERSION_MESSAGES_H_

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "launcher/convert/conversion.h"

namespace tbprof {

inline constexpr char kConvertWorkerArgument[] = "--convert-worker";
// The worker's descriptors.
inline constexpr int kConvertRequestFd = 3;
inline constexpr int kConvertResultFd = 4;
inline constexpr int kConvertLogdirFd = 5;
inline constexpr int kConvertSpoolDirectoryFd = 6;

std::string BytesToText(const std::string& bytes);
std::string TextToBytes(const std::string& text);

nlohmann::json ToJson(const ConversionRequest& request);
// Throws if a field is missing or has another type.
ConversionRequest RequestFromJson(const nlohmann::json& json);

nlohmann::json ToJson(const ConversionResult& result);
// Missing fields get default values. Does not set `status`.
void ReadResult(const nlohmann::json& json, ConversionResult* result);

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_CONVERT_CONVERSION_MESSAGES_H_
