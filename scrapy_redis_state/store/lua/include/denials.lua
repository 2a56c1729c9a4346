-- Which errors say that the user may not run a command.

-- As servers from 6.2 on say it inside of scripts.
local DENIALS = {'ACL failure', "The user executing the script can't", 'NOPERM'}

local function is_denied(error)
  for _, text in ipairs(DENIALS) do
    if string.find(error, text, 1, true) then
      return true
    end
  end
  return false
end

-- Adds the command to `missed` if the user may not run it; answers whether it was run.
local function note(missed, command, answer)
  local error = type(answer) == 'table' and answer.err
  if error and is_denied(error) then
    missed[#missed + 1] = command
  end
  return not error
end
